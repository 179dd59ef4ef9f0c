"""Host-side objects that drive one device over one link."""
