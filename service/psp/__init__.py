"""One file a payment service provider, behind one Protocol."""
