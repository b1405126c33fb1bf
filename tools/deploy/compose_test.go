package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// project is the compose file as Docker Compose reads it: checked against its schema, defaults filled in.
func project(t *testing.T) *types.Project {
	t.Helper()
	opts, err := cli.NewProjectOptions([]string{filepath.Join(root, "deploy", "compose", "compose.yaml")}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := opts.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func composeEnv(s types.ServiceConfig) map[string]string {
	env := map[string]string{}
	for name, value := range s.Environment {
		if value != nil {
			env[name] = *value
		}
	}
	return env
}

func TestComposeFileFitsTogether(t *testing.T) {
	p := project(t)
	var routers, nodes []string
	for name, s := range p.Services {
		env := composeEnv(s)
		switch {
		case strings.HasPrefix(name, "router-"):
			routers = append(routers, name+":7000")
			checkProgram(t, s, "iqrouter")
			acceptsRouter(t, env)
		case strings.HasPrefix(name, "node-"):
			nodes = append(nodes, name)
		case name != "kafka" && name != "topics":
			t.Errorf("no check knows the service %s", name)
		}
	}
	slices.Sort(routers)
	if len(routers) != 2 || len(nodes) != 3 {
		t.Fatalf("routers %v, nodes %v", routers, nodes)
	}
	topology := configFile(t, p, "topology")
	volumes := map[string]bool{}
	for _, name := range nodes {
		s := p.Services[name]
		env := composeEnv(s)
		checkProgram(t, s, "iqnode")
		if len(s.Configs) != 1 || len(s.Volumes) != 1 || s.Configs[0].Source != "topology" {
			t.Fatalf("%s: configs %v, volumes %v", name, s.Configs, s.Volumes)
		}
		volumes[s.Volumes[0].Source] = true
		for setting, want := range map[string]string{
			"IQNODE_NODE_ID": name, "IQNODE_ADVERTISED": name + ":7070", "IQNODE_LISTEN": ":7070", "IQNODE_ROUTERS": strings.Join(routers, ","),
			"IQNODE_BROKERS": "kafka:9092", "IQNODE_TOPOLOGY": s.Configs[0].Target,
		} {
			if env[setting] != want {
				t.Errorf("%s: %s is %q, want %q", name, setting, env[setting], want)
			}
		}
		if !strings.HasPrefix(env["IQNODE_STATE_DIR"], s.Volumes[0].Target+"/") {
			t.Errorf("%s: the state is outside of the volume: %v", name, env)
		}
		if d, ok := s.DependsOn["topics"]; !ok || d.Condition != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s does not wait for the topics: %v", name, s.DependsOn)
		}
		acceptsNode(t, env, map[string]string{s.Configs[0].Target: topology})
	}
	if len(volumes) != 3 {
		t.Errorf("nodes share volumes: %v", volumes)
	}
}

// checkProgram checks what nodes and routers have in common.
func checkProgram(t *testing.T, s types.ServiceConfig, program string) {
	t.Helper()
	if !slices.Equal(s.Command, []string{"/usr/bin/" + program}) || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Build == nil {
		t.Errorf("%s: command %v, read only %v, capabilities dropped %v, build %v", s.Name, s.Command, s.ReadOnly, s.CapDrop, s.Build)
	}
	if s.Build != nil {
		if _, err := os.Stat(filepath.Join(s.Build.Context, "Dockerfile")); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	if stop := stopTime(t, program, composeEnv(s)); s.StopGracePeriod == nil || seconds(t, s.StopGracePeriod.String()) <= stop {
		t.Errorf("%s is killed after %v; stopping may take %v", s.Name, s.StopGracePeriod, stop)
	}
}

func configFile(t *testing.T, p *types.Project, name string) string {
	t.Helper()
	text, err := os.ReadFile(p.Configs[name].File)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestComposeCreatesTheTopicsThatAreRead in the Kafka that the tests run against too.
func TestComposeCreatesTheTopicsThatAreRead(t *testing.T) {
	p := project(t)
	var app struct{ Sources []struct{ Topic string } }
	if err := yaml.Unmarshal([]byte(configFile(t, p, "topology")), &app); err != nil {
		t.Fatal(err)
	}
	for _, s := range app.Sources {
		if !slices.Contains(p.Services["topics"].Command, "--topic="+s.Topic) {
			t.Errorf("nobody creates the topic %s: %v", s.Topic, p.Services["topics"].Command)
		}
	}
	if len(app.Sources) == 0 {
		t.Error("the application reads nothing")
	}
	pom, err := os.ReadFile(filepath.Join(root, "integration", "kafkabroker", "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`<artifactId>kafka-tools</artifactId><version>([^<]+)</version>`).FindSubmatch(pom)
	if m == nil {
		t.Fatal("pom.xml names no version of Kafka")
	}
	for _, name := range []string{"kafka", "topics"} {
		if want := "apache/kafka:" + string(m[1]); p.Services[name].Image != want {
			t.Errorf("%s runs %s; the tests run against %s", name, p.Services[name].Image, want)
		}
	}
}

// TestComposeKafkaListensWhereItSays: a listener without a protocol, or an advertised one that is not there, ends a broker.
func TestComposeKafkaListensWhereItSays(t *testing.T) {
	env := composeEnv(project(t).Services["kafka"])
	names := func(list, sep string) (all []string) {
		for item := range strings.SplitSeq(list, ",") {
			name, _, _ := strings.Cut(item, sep)
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	listeners := names(env["KAFKA_LISTENERS"], "://")
	if protocols := names(env["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"], ":"); !slices.Equal(listeners, protocols) {
		t.Errorf("listeners %v, protocols of %v", listeners, protocols)
	}
	for _, name := range append(names(env["KAFKA_ADVERTISED_LISTENERS"], "://"), env["KAFKA_INTER_BROKER_LISTENER_NAME"], env["KAFKA_CONTROLLER_LISTENER_NAMES"]) {
		if !slices.Contains(listeners, name) {
			t.Errorf("%s is no listener of %v", name, listeners)
		}
	}
	if env["KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR"] != "1" || env["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] != "1" || env["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] != "1" {
		t.Error("internal topics want more brokers than there are")
	}
}
