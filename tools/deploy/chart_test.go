package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var chartDir = filepath.Join(root, "deploy", "helm", "iqgate")

// render is `helm template NAME deploy/helm/iqgate -f VALUES`, with the checks of an installation.
func render(name, values string) (map[string]string, error) {
	c, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	top, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: name, Namespace: "default", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(c, top)
	maps.DeleteFunc(files, func(path, _ string) bool { return strings.HasSuffix(path, "NOTES.txt") })
	return files, err
}

func renderCluster(t *testing.T, name, values string) *cluster {
	t.Helper()
	files, err := render(name, values)
	if err != nil {
		t.Fatal(err)
	}
	c, err := decode(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChartPassesHelmsLint(t *testing.T) {
	for _, m := range lint.All(chartDir, nil, "default", true).Messages {
		// That there is no icon is all that Helm may remark.
		if m.Severity > support.InfoSev || !strings.Contains(m.Error(), "icon is recommended") {
			t.Error(m)
		}
	}
}

// TestChartIsWhatTheManifestsAre: whoever changes the one changes the other.
func TestChartIsWhatTheManifestsAre(t *testing.T) {
	chart := renderCluster(t, "iqgate", "")
	plain, err := decode(manifests(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range chart.sets {
		set.Spec.Template.Annotations = nil // the checksum of the application
	}
	equal(t, "StatefulSet", plain.sets, chart.sets)
	equal(t, "Service", plain.services, chart.services)
	equal(t, "ConfigMap", plain.configs, chart.configs)
	equal(t, "PodDisruptionBudget", plain.budgets, chart.budgets)
}

// equal compares objects as JSON, without the labels that only Helm gives.
func equal[T any, O interface {
	*T
	metav1.Object
}](t *testing.T, kind string, plain, chart map[string]O,
) {
	t.Helper()
	if a, b := slices.Sorted(maps.Keys(plain)), slices.Sorted(maps.Keys(chart)); !slices.Equal(a, b) {
		t.Errorf("%s: the manifests have %v, the chart has %v", kind, a, b)
	}
	for name := range plain {
		if chart[name] == nil {
			continue
		}
		for _, label := range []string{"app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
			if given := chart[name].GetLabels(); given[label] == "" {
				t.Errorf("%s %s of the chart has no label %s", kind, name, label)
			} else {
				delete(given, label)
			}
		}
		if a, b := text(t, plain[name]), text(t, chart[name]); a != b {
			t.Errorf("%s %s differs.\nmanifest:\n%s\nchart:\n%s", kind, name, a, b)
		}
	}
}

func text(t *testing.T, o any) string {
	t.Helper()
	data, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// everything is a set of values that uses all of the chart's branches.
const everything = `
image: {repository: registry.example.com/iqgate, tag: 1.2.3, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
replica: "application: java\n"
kafka: {brokers: ["kafka-1:9093", "kafka-2:9093"], privateCA: true, sasl: scram-sha-512, user: iqgate, secretName: kafka}
tls: {secretName: iqgate-tls, serverName: iqgate.example.com, requireClient: true}
auth: {secretName: iqgate-auth, tokens: true}
node:
  replicas: 5
  port: 8070
  advertised: "[$(POD_IP)]:8070"
  rackFrom: metadata.labels['topology.kubernetes.io/zone']
  drainSeconds: 120
  settings: {standbys: 2, sync-writes: true, lease: 3s, max-uncommitted-bytes: 33554432}
  storage: {size: 100Gi, className: fast}
  podAnnotations: {example.com/team: flights}
  nodeSelector: {kubernetes.io/arch: arm64}
  tolerations: [{key: dedicated, operator: Exists}]
  affinity: {nodeAffinity: {}}
  priorityClassName: high
router:
  replicas: 3
  port: 8000
  stopSeconds: 60
  settings: {hedge: true, max-in-flight: 5000}
  service: {type: LoadBalancer, annotations: {example.com/internal: "true"}}
  podAnnotations: {example.com/team: flights}
`

func TestChartWithEverythingFitsTogether(t *testing.T) {
	c := renderCluster(t, "prod", everything)
	checkCluster(t, c)
	node := c.sets["prod-iqgate-node"]
	if node == nil {
		t.Fatalf("sets are %v", slices.Sorted(maps.Keys(c.sets)))
	}
	env := environment(t, node)
	for name, want := range map[string]string{
		"IQNODE_STANDBYS": "2", "IQNODE_SYNC_WRITES": "true", "IQNODE_MAX_UNCOMMITTED_BYTES": "33554432", "IQNODE_ADVERTISED": "[10.0.0.7]:8070",
		"IQNODE_RACK": "zone-1", "IQNODE_BROKERS": "kafka-1:9093,kafka-2:9093", "IQNODE_REPLICA": "/etc/iqgate/replica.yaml",
		"IQNODE_DRAIN_TIMEOUT": "120s", "IQNODE_KAFKA_PASSWORD_FILE": "/etc/iqgate-kafka/password", "IQNODE_AUTH_KEYS": "/etc/iqgate-auth/keys.json",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if got := node.Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/iqgate:1.2.3" {
		t.Errorf("image %s", got)
	}
	if p := node.Spec.Template.Spec.Containers[0].ReadinessProbe; p.GRPC != nil {
		t.Error("a grpc probe without TLS asks a program with TLS")
	}
}

// TestChartsOtherBranches: what everything leaves out.
func TestChartsOtherBranches(t *testing.T) {
	c := renderCluster(t, "iqgate", `{existingConfigMap: mine, kafka: {tls: true, sasl: oauthbearer, secretName: kafka}, node: {rackFrom: ""}}`)
	checkCluster(t, c)
	node := c.sets["iqgate-node"]
	env := environment(t, node)
	if _, ok := env["IQNODE_RACK"]; ok || env["IQNODE_KAFKA_TOKEN_FILE"] != "/etc/iqgate-kafka/token" || env["IQNODE_KAFKA_TLS"] != "true" {
		t.Errorf("environment %v", env)
	}
	if len(c.configs) != 0 || node.Spec.Template.Spec.Volumes[0].ConfigMap.Name != "mine" {
		t.Errorf("ConfigMaps %v, volumes %v", c.configs, node.Spec.Template.Spec.Volumes)
	}
	c = renderCluster(t, "iqgate", "topology: |\n  application: mine\n")
	if got := c.configs["iqgate-topology"].Data["topology.yaml"]; got != "application: mine\n" {
		t.Errorf("topology %q", got)
	}
}

func TestChangedApplicationRollsTheNodes(t *testing.T) {
	sum := func(values string) string {
		return renderCluster(t, "iqgate", values).sets["iqgate-node"].Spec.Template.Annotations["checksum/topology"]
	}
	if a, b := sum("topology: a"), sum("topology: b"); a == "" || a == b {
		t.Errorf("checksums %q and %q", a, b)
	}
}

func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"{nodes: {replicas: 3}}":                          "nodes",
		"{node: {replicas: 0}}":                           "replicas",
		"{node: {settings: {listen: ':1'}}}":              "settings",
		"{node: {settings: {Standbys: 1}}}":               "settings",
		"{node: {settings: {kafka-password: secret}}}":    "settings",
		"{node: {storage: {size: large}}}":                "size",
		"{node: {rackFrom: metadata.uid}}":                "rackFrom",
		"{kafka: {brokers: []}}":                          "brokers",
		"{kafka: {brokers: [kafka]}}":                     "brokers",
		"{kafka: {sasl: gssapi}}":                         "sasl",
		"{kafka: {sasl: plain, user: u}}":                 "secretName",
		"{kafka: {sasl: plain, secretName: s}}":           "user",
		"{kafka: {privateCA: true}}":                      "secretName",
		"{router: {service: {type: ExternalName}}}":       "type",
		"{router: {settings: {name: a}}}":                 "settings",
		"{image: {repository: ''}}":                       "repository",
		"{topology: 'application: a', replica: 'also a'}": "set one of them",
	} {
		if _, err := render("iqgate", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

func TestTheExampleIsTheSameEverywhere(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(root, "topology", "testdata", "flights.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(chartDir, "files", "flights.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("the chart's flights.yaml is not topology/testdata/flights.yaml")
	}
}
