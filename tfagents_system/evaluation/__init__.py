"""Episodes, their records, video and plots."""
