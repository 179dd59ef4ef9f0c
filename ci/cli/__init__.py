"""The ``lockstep`` command, one file per subcommand, found by file name."""
