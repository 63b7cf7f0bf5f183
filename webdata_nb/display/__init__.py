"""What a person sees while a job runs: the only place that knows tqdm and IPython."""
