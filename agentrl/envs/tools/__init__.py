"""Tools an env may offer, one a file."""
