"""What is shown of groups and changes none of them: descriptions, lists, metrics."""
