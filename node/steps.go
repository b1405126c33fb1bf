package node

// The steps of a commit, in order, as Config.Step hears of them. A crash at any of them loses nothing and doubles nothing:
// before stepEnd the transaction is aborted and its input processed again; from stepEnd on Kafka decides, and the
// restart reads the decision from the changelog.
const (
	stepProduce = "produce" // the overlays are about to become changelog records
	stepFlush   = "flush"   // everything is sent, nothing is known to have arrived
	stepOffsets = "offsets" // all records are in Kafka, the input offsets are not in the transaction
	stepEnd     = "end"     // the transaction is complete, EndTxn is not sent
	stepSent    = "sent"    // EndTxn is answered; as if the answer were lost
	stepApply   = "apply"   // Kafka has committed, nothing is applied
	stepApplied = "applied" // one store is applied, called after each
)

// The steps of a store that is restored. What fails at them is tried again.
const (
	stepOpen    = "open"    // it is about to be opened
	stepRestore = "restore" // a batch of its changelog is about to be applied, before it has caught up
)

// The steps of a promotion, in order (promote.go). What fails at them begins anew.
const (
	stepFence     = "fence"     // whoever held the task is about to be fenced
	stepCommitted = "committed" // the committed offsets are about to be asked for
	stepEnds      = "ends"      // the committed offsets are known, the changelogs' ends are not
	stepTake      = "take"      // the ends are known, the stores may not have reached them
)

// The steps of giving up tasks (handover.go). An error resets the worker.
const (
	stepRevoke   = "revoke"   // tasks were revoked, the last commit is not made
	stepReleased = "released" // they are let go of, the group does not know
)

// step says that a step is about to be made.
func (c Config) step(name string) error { return stepped(c.Step, name) }

func (s *replicaSet) step(name string) error { return stepped(s.onStep, name) }

func stepped(on func(string) error, name string) error {
	if on == nil {
		return nil
	}
	return on(name)
}
