"""Pictures of the rotation: hands, dial, planes, curves, pairs."""
