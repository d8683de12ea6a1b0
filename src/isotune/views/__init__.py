"""Views: how one sentence becomes several, by random changes that keep its meaning."""
