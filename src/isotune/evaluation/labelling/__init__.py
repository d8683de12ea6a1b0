"""Labels for choosing between encoders: which pairs a person scores, and the session in which they are scored."""
