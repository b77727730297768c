"""A lesson on screen: chosen, walked, asked."""
