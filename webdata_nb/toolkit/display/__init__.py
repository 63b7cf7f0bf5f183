"""Shows the progress of jobs; the only package that imports tqdm and IPython."""
