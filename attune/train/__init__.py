"""The one trainer, schedules, recipes, checkpoints."""
