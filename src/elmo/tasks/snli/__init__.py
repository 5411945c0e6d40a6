"""Does a sentence follow from another? (Bowman et al., 2015)."""
