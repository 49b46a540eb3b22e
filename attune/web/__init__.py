"""What every page and API shares: the app factory, errors, security headers, limits, logs, keys, storage, templates."""
