"""`python -m e2e.kind …`: as `python -m e2e.node`, but three nodes. See e2e/README.md."""

import sys

from e2e.kind.make import three_nodes
from e2e.node.__main__ import main

if __name__ == "__main__":
    sys.exit(main(three_nodes, rung="kind", what="Three Kubernetes nodes"))
