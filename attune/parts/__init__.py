"""What is fetched: pretrained parts and data inside index packages, a cache, and `attune setup`."""
