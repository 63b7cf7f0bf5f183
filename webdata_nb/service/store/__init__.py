"""Jobs, their pages and who owns them. The job table is the queue, the pages are the journal."""
