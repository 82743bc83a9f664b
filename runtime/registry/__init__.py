"""What is registered: packages, model packages, data sets and models. Nothing registered is ever overwritten."""
