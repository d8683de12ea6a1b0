"""Labels for choosing between encoders: which pairs are scored, and the session for it."""
