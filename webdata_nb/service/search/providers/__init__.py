"""Search providers, a file each, all answering as `base.Provider` says."""
