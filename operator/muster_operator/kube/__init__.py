"""The Kubernetes API server behind `ports.Kube`, and its objects as the views that planning reads."""
