"""What is done about each kind: observe, plan, apply, report."""
