"""What tests share: small runs, processes, doubles and numbers. No test imports another."""
