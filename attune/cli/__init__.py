"""The command `attune`: one file per verb, no logic.

Each verb is a module here with either a Typer sub-application called ``app`` or a function called ``main``.
They are imported only when asked for, so that ``attune --help`` and ``attune chat`` stay quick.
"""
