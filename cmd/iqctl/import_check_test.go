package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Who may ask the Kafka of these tests.
const kafkaUser, kafkaPassword = "checker", "correct-horse"

// ordersKafka is a Kafka that asks who is there. It has what a Kafka Streams application "orders" left: a table of counts whose
// newest record is as Kafka Streams writes it, and a repartition topic of a store that nothing can be served of.
func ordersKafka(t *testing.T) (address string) {
	t.Helper()
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", kafkaUser, kafkaPassword))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	address = k.ListenAddrs()[0]
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.SASL(scram.Auth{User: kafkaUser, Pass: kafkaPassword}.AsSha256Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	compacted := map[string]*string{"cleanup.policy": new("compact")}
	for topic, configs := range map[string]map[string]*string{"purchases": nil, "orders-totals-changelog": compacted, "orders-empty-changelog": compacted} {
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 3, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
	value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1_700_000_000_000), 17) // a timestamp, then the count
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders-totals-changelog", Key: []byte("apple"), Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return address
}

// kafkaEnv is the environment with which a command is let in.
func kafkaEnv(address string) map[string]string {
	return map[string]string{"IQCTL_BROKERS": address, "IQCTL_KAFKA_SASL": "scram-sha-256", "IQCTL_KAFKA_USER": kafkaUser, "IQCTL_KAFKA_PASSWORD": kafkaPassword}
}

// TestImportCheckReadsWhatAnApplicationLeft, and draws a file up that it accepts itself.
func TestImportCheckReadsWhatAnApplicationLeft(t *testing.T) {
	env := kafkaEnv(ordersKafka(t))
	stdout, stderr, code := runInMemory(t, strings.Fields("import-check orders -o json"), env)
	var shape importJSON
	if err := json.Unmarshal([]byte(stdout), &shape); err != nil || stderr != "" {
		t.Fatalf("%v, exit %d\n%s%s", err, code, stdout, stderr)
	}
	stores := map[string]importStoreJSON{}
	for _, s := range shape.Stores {
		stores[s.Store] = s
	}
	totals, ok := stores["totals"]
	if !ok || shape.Application != "orders" || len(stores) != 2 || totals.Topic != "orders-totals-changelog" || totals.Partitions != 3 || totals.Offsets != 1 || !totals.KindDetected {
		t.Errorf("of totals it says %+v, of all %+v", totals, shape)
	}
	draft, stderr, code := runInMemory(t, strings.Fields("import-check orders --draft"), env)
	if code != exitOK || !strings.Contains(draft, "totals") {
		t.Fatalf("exit %d\n%s%s", code, draft, stderr)
	}
	file := filepath.Join(t.TempDir(), "orders.yaml")
	if err := os.WriteFile(file, []byte(draft), 0o600); err != nil {
		t.Fatal(err)
	}
	again, stderr, code := runInMemory(t, []string{"import-check", "orders", "--file", file}, env)
	if code == exitUsage || !strings.Contains(again, "totals") {
		t.Errorf("its own draft: exit %d\n%s%s", code, again, stderr)
	}
	if _, stderr, code := runInMemory(t, []string{"import-check", "others", "--file", file}, env); code != exitUsage || !strings.Contains(stderr, `is of application "orders", not "others"`) {
		t.Errorf("the file of another application: exit %d, %s", code, stderr)
	}
	table, _, code := runInMemory(t, strings.Fields("import-check orders"), env)
	if !strings.HasPrefix(table, "application orders: ") || !strings.Contains(table, "orders-empty-changelog") || code != exitOK && code != exitNotServed {
		t.Errorf("exit %d\n%s", code, table)
	}
}

// TestImportCheckShowsItself as it is told to, and says what it lacks.
func TestImportCheckShowsItself(t *testing.T) {
	address := ordersKafka(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(kafkaPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := "import-check orders --brokers " + address + " --timeout 3s "
	for _, c := range []struct {
		name, flags string
		env         map[string]string
		code        int
		want        string
	}{
		{name: "by flags", flags: flags + "--kafka-sasl scram-sha-256 --kafka-user " + kafkaUser + " --kafka-password-file " + file, want: "application orders"},
		{name: "a wrong password", flags: flags + "--kafka-sasl scram-sha-256 --kafka-user " + kafkaUser, env: map[string]string{"IQCTL_KAFKA_PASSWORD": "wrong"}, code: exitError, want: address},
		{name: "no user", flags: flags + "--kafka-sasl plain --kafka-password-file " + file, code: exitUsage, want: `kafka-user "": is required for PLAIN`},
		{name: "no password", flags: flags + "--kafka-sasl plain --kafka-user u", code: exitUsage, want: "--kafka-sasl needs --kafka-password-file"},
		{name: "a password on the command line", flags: flags + "--kafka-password x", code: exitUsage, want: "unknown flag: --kafka-password"},
		{name: "no authorities", flags: flags + "--kafka-tls-ca /nowhere/ca.pem", code: exitUsage, want: "/nowhere/ca.pem"},
		{name: "no mechanism", flags: flags + "--kafka-sasl kerberos", code: exitUsage, want: `--kafka-sasl "kerberos": must be plain, scram-sha-256, scram-sha-512 or oauthbearer`},
		{name: "no brokers", flags: "import-check orders", code: exitUsage, want: "--brokers is missing"},
		{name: "bad brokers", flags: "import-check orders --brokers here", code: exitUsage, want: `--brokers "here": must be host:port`},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := runInMemory(t, strings.Fields(c.flags), c.env)
			if c.want == "application orders" && code == exitNotServed {
				code = exitOK // what it says of the stores is not what is asked here
			}
			if code != c.code || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stdout+stderr, kafkaPassword) {
				t.Errorf("exit %d, want %d with %q\n%s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}
