"""How one sentence becomes several: random changes that keep its meaning."""
