def open_encoders(spec, *, device="cpu"):
    from elmo.encoders.elmo import ElmoEncoder

    return () if spec == "none" else (ElmoEncoder.open(),)
