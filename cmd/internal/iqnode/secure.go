package iqnode

import (
	"errors"
	"log/slog"

	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/node"
)

// secure reads the files that say how the node's links are protected. It gives the certificates for Kafka, which the caller
// keeps with their files; nil when there are none. What the node does with its own it does itself.
func (s *settings) secure(cfg *node.Config, log *slog.Logger) (*certs.Identity, error) {
	links, err := s.links.Load(log)
	toKafka, files, kafkaErr := s.kafka.Load()
	if err != nil || kafkaErr != nil {
		return nil, errors.Join(err, kafkaErr)
	}
	cfg.Security, cfg.Kafka = links, toKafka
	if toKafka.Exposed() {
		log.Warn("the secret for Kafka crosses the network unprotected: SASL without TLS", slog.String("mechanism", toKafka.Mechanism))
	}
	return files, nil
}
