"""Words that a listener does not bring up by itself: sexual, crude, hateful, or ways to kill.

ConceptNet knows them all, and CKECE likes what is emotionally strong. What a person says themselves is not touched.
"""

from __future__ import annotations

from attune.knowledge.index import base_forms

UNFIT = frozenset([
    "anal", "anus", "arse", "ass", "asshole", "bastard", "bitch", "blowjob", "bomb", "bondage", "boner", "boob",
    "breast", "butt", "buttock", "castrate", "cleavage", "climax", "clitoris", "cock", "coitus", "condom", "copulate",
    "copulation", "corpse", "crap", "crappy", "cum", "cunt", "decapitate", "dick", "dildo", "ejaculate",
    "ejaculation", "erect", "erection", "erotic", "fag", "faggot", "fart", "feces", "fellatio", "fetish", "foreplay",
    "fornicate", "fornication", "fuck", "fucker", "fucking", "genital", "genitalia", "genitals", "gore", "groin",
    "guillotine", "hitler", "homo", "hooker", "horny", "incest", "intercourse", "kill", "killer", "killing", "kinky", "lewd", "lust", "lynch",
    "massacre", "masturbate", "masturbation", "molest", "molester", "motherfucker", "murder", "murderer", "naked",
    "nazi", "necrophilia", "negro", "nigger", "nipple", "noose", "nude", "nudist", "nudity", "orgasm", "orgy",
    "ovulate", "pedophile", "penetrate", "penis", "pervert", "perverted", "pimp", "piss", "poop", "porn", "porno",
    "pornographic", "pornography", "pornstar", "prostitute", "prostitution", "pubic", "pussy", "racist", "rape",
    "raper", "rapist", "rectum", "retard", "retarded", "scrotum", "semen", "sex", "sexual", "sexuality", "sexually",
    "sexy", "shit", "shitty", "slave", "slut", "sodomy", "sperm", "spunk", "stab", "strangle", "strip", "stripper",
    "suicidal", "suicide", "testicle", "tit", "tits", "topless", "torture", "turd", "undress", "urinate", "urination",
    "urine", "vagina", "viagra", "vibrator", "virgin", "virginity", "vulva", "wank", "whore", "whorehouse",
])  # fmt: skip


def fit(concept: str) -> bool:
    """Whether a concept may be brought up.

    >>> fit("sleep well"), fit("have sex"), fit("erections")
    (True, False, False)
    """
    return not any(form in UNFIT for word in concept.lower().split() for form in (word, *base_forms(word)))
