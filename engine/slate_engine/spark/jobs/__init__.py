"""What the jobs share: settings from flags or a file, a session, progress, and a summary at the end."""
