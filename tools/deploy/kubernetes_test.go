package deploy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// A cluster is what manifests ask Kubernetes for, by name.
type cluster struct {
	sets     map[string]*appsv1.StatefulSet
	services map[string]*corev1.Service
	configs  map[string]*corev1.ConfigMap
	budgets  map[string]*policyv1.PodDisruptionBudget
}

// decode takes manifests as the API server would with fieldValidation=Strict: a field that is not known or given twice is an error.
func decode(manifests map[string]string) (*cluster, error) {
	c := &cluster{
		map[string]*appsv1.StatefulSet{}, map[string]*corev1.Service{}, map[string]*corev1.ConfigMap{}, map[string]*policyv1.PodDisruptionBudget{},
	}
	for file, text := range manifests {
		for _, doc := range bytes.Split([]byte("\n"+text), []byte("\n---\n")) {
			var kind struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(doc, &kind); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			var err error
			switch kind.APIVersion + " " + kind.Kind {
			case " ":
				continue // nothing but comments
			case "apps/v1 StatefulSet":
				err = keep(c.sets, doc, func(o *appsv1.StatefulSet) string { return o.Name })
			case "v1 Service":
				err = keep(c.services, doc, func(o *corev1.Service) string { return o.Name })
			case "v1 ConfigMap":
				err = keep(c.configs, doc, func(o *corev1.ConfigMap) string { return o.Name })
			case "policy/v1 PodDisruptionBudget":
				err = keep(c.budgets, doc, func(o *policyv1.PodDisruptionBudget) string { return o.Name })
			default:
				err = fmt.Errorf("no check knows %s %s", kind.APIVersion, kind.Kind)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, kind.Kind, err)
			}
		}
	}
	return c, nil
}

func keep[T any](all map[string]*T, doc []byte, name func(*T) string) error {
	o := new(T)
	if err := yaml.UnmarshalStrict(doc, o); err != nil {
		return err
	}
	if all[name(o)] != nil {
		return fmt.Errorf("%s is there twice", name(o))
	}
	all[name(o)] = o
	return nil
}

// manifests are the files of deploy/kubernetes.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(text)
	}
	return files
}

func TestManifestsFitTogether(t *testing.T) {
	c, err := decode(manifests(t))
	if err != nil {
		t.Fatal(err)
	}
	checkCluster(t, c)
	for name, set := range c.sets {
		env := environment(t, set)
		if strings.HasSuffix(name, "-router") {
			acceptsRouter(t, env)
		} else {
			acceptsNode(t, env, mounted(c, set))
		}
	}
}

// TestChecksFindFaults: each fault is one that a manifest can have and still decode.
func TestChecksFindFaults(t *testing.T) {
	for _, f := range []struct{ file, old, new string }{
		{"iqnode.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 45"},
		{"iqnode.yaml", "serviceName: iqgate-node", "serviceName: iqgate-nodes"},
		{"iqnode.yaml", "iqgate-router-1.", "iqgate-router-2."},
		{"iqnode.yaml", "name: iqgate-topology", "name: topology"},
		{"iqnode.yaml", "        - name: state\n              mount", "        - name: data\n              mount"},
		{"iqnode.yaml", "value: /var/lib/iqnode/state", "value: /var/lib/state"},
		{"iqnode.yaml", "port: 7070\n            period", "port: 7000\n            period"},
		{"iqnode.yaml", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
		{"iqnode.yaml", "name: IQNODE_DRAIN_TIMEOUT", "name: IQNODE_DRAIN"},
		{"iqnode.yaml", "topologyKey: kubernetes.io/hostname", "topologyKey: topology.kubernetes.io/zone"},
		{"iqrouter.yaml", "seconds: 5", "seconds: 20"},
		{"iqrouter.yaml", "enableServiceLinks: false", "enableServiceLinks: true"},
		{"iqrouter.yaml", "  publishNotReadyAddresses: true\n", ""},
		{"iqrouter.yaml", "targetPort: grpc", "targetPort: http"},
		{"iqrouter.yaml", "maxUnavailable: 1", "maxUnavailable: 2"},
	} {
		files := manifests(t)
		if !strings.Contains(files[f.file], f.old) {
			t.Errorf("%s has no %q", f.file, f.old)
			continue
		}
		files[f.file] = strings.Replace(files[f.file], f.old, f.new, 1)
		c, err := decode(files)
		if err != nil {
			t.Errorf("%s with %q: %v", f.file, f.new, err)
			continue
		}
		if len(faults(variables(t), c)) == 0 {
			t.Errorf("%s with %q: no fault found", f.file, f.new)
		}
	}
	files := manifests(t)
	files["iqnode.yaml"] = strings.Replace(files["iqnode.yaml"], "minReadySeconds", "minReadySecs", 1)
	if _, err := decode(files); err == nil {
		t.Error("a field that Kubernetes does not know was decoded")
	}
}

// environment is what a pod's program finds in its environment; fields of the pod are as an API server might fill them in.
func environment(t *testing.T, set *appsv1.StatefulSet) map[string]string {
	t.Helper()
	fields := map[string]string{
		"metadata.name": set.Name + "-0", "metadata.namespace": "default", "status.podIP": "10.0.0.7", "spec.nodeName": "machine-1",
		"metadata.labels['topology.kubernetes.io/zone']": "zone-1",
	}
	env := map[string]string{}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		value := e.Value
		for name, known := range env { // a reference reaches what stands above it
			value = strings.ReplaceAll(value, "$("+name+")", known)
		}
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			known, ok := fields[e.ValueFrom.FieldRef.FieldPath]
			if !ok {
				t.Errorf("%s: %s: %s is no field of a pod that is known here", set.Name, e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
			value = known
		}
		env[e.Name] = value
	}
	return env
}

// mounted are the files of ConfigMaps that a pod sees.
func mounted(c *cluster, set *appsv1.StatefulSet) map[string]string {
	files := map[string]string{}
	pod := set.Spec.Template.Spec
	for _, m := range pod.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || pod.Volumes[i].ConfigMap == nil || c.configs[pod.Volumes[i].ConfigMap.Name] == nil {
			continue
		}
		for key, text := range c.configs[pod.Volumes[i].ConfigMap.Name].Data {
			files[m.MountPath+"/"+key] = text
		}
	}
	return files
}

func checkCluster(t *testing.T, c *cluster) {
	t.Helper()
	if len(c.sets) != 2 {
		t.Errorf("%d StatefulSets, want that of the nodes and that of the routers", len(c.sets))
	}
	for _, f := range faults(variables(t), c) {
		t.Error(f)
	}
}
