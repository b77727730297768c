"""What a right click on a plot offers."""
