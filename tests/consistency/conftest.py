from hypothesis import settings

# The laws are about numbers, not about how busy the machine is.
settings.register_profile("consistency", deadline=None)
settings.load_profile("consistency")
