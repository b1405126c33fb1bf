package integration

import "github.com/iqgate/iqgate/node"

type nodeConfig = node.Config
