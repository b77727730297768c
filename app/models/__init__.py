"""Models that are not open yet: on this machine, or to be downloaded."""
