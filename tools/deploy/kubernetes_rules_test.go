package deploy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A judge collects what is wrong.
type judge struct {
	variables map[string]bool // that are settings of the programs
	cluster   *cluster
	found     []string
}

// faults is what is wrong with a cluster although each of its objects decodes.
func faults(variables map[string]bool, c *cluster) []string {
	j := &judge{variables: variables, cluster: c}
	for _, set := range c.sets {
		j.names(set.Name, set.Labels)
		j.set(set)
		j.container(set)
		j.restricted(set)
		j.stop(set)
	}
	for name, s := range c.services {
		j.names(name, s.Labels)
		j.service(s)
	}
	for name, b := range c.budgets {
		j.names(name, b.Labels)
		if !j.selectsOne(b.Spec.Selector) {
			j.say("budget %s selects the pods of no or several StatefulSets", name)
		}
		if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 {
			j.say("budget %s lets more than one pod go at a time", name)
		}
	}
	if len(c.budgets) != len(c.sets) {
		j.say("%d budgets for %d StatefulSets", len(c.budgets), len(c.sets))
	}
	j.routers()
	slices.Sort(j.found)
	return j.found
}

func (j *judge) say(format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf(format, args...))
}

func (j *judge) names(name string, given map[string]string) {
	for _, text := range validation.IsDNS1123Label(name) {
		j.say("name %s: %s", name, text)
	}
	for key, value := range given {
		for _, text := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			j.say("label %s=%s of %s: %s", key, value, name, text)
		}
	}
}

// matches tells whether a selector selects the pods of a StatefulSet.
func (j *judge) matches(s *metav1.LabelSelector, set *appsv1.StatefulSet) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		j.say("selector of %s: %v", set.Name, err)
		return false
	}
	return !selector.Empty() && selector.Matches(labels.Set(set.Spec.Template.Labels))
}

func (j *judge) selectsOne(s *metav1.LabelSelector) bool {
	n := 0
	for _, set := range j.cluster.sets {
		if s != nil && j.matches(s, set) {
			n++
		}
	}
	return n == 1
}

func (j *judge) set(set *appsv1.StatefulSet) {
	pod := set.Spec.Template.Spec
	if !j.matches(set.Spec.Selector, set) || !j.selectsOne(set.Spec.Selector) {
		j.say("%s selects other pods than its own", set.Name)
	}
	s := j.cluster.services[set.Spec.ServiceName]
	switch {
	case s == nil:
		j.say("%s: there is no service %s", set.Name, set.Spec.ServiceName)
	case s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses:
		j.say("%s: service %s must be headless and name pods before they are ready", set.Name, s.Name)
	case !j.matches(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, set):
		j.say("%s: service %s selects other pods", set.Name, s.Name)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		j.say("%s: service links and the service account's token must be off", set.Name)
	}
	var spread []string
	for _, c := range pod.TopologySpreadConstraints {
		if spread = append(spread, c.TopologyKey); c.MaxSkew != 1 || !j.matches(c.LabelSelector, set) || !j.selectsOne(c.LabelSelector) {
			j.say("%s: the spread over %s is not over its own pods", set.Name, c.TopologyKey)
		}
	}
	if !slices.Equal(spread, []string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}) {
		j.say("%s is spread over %v", set.Name, spread)
	}
	j.volumes(set)
}

// volumes checks that what is mounted is there, and that each setting that names a file or folder names one below a mount.
func (j *judge) volumes(set *appsv1.StatefulSet) {
	pod := set.Spec.Template.Spec
	known := map[string]bool{} // whether it may be written
	for _, v := range pod.Volumes {
		known[v.Name] = false
		if v.ConfigMap != nil && j.cluster.configs[v.ConfigMap.Name] == nil && len(j.cluster.configs) > 0 {
			j.say("%s: there is no ConfigMap %s", set.Name, v.ConfigMap.Name)
		}
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		known[claim.Name] = true
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.IsZero() || len(claim.Spec.AccessModes) == 0 {
			j.say("%s: claim %s has no size or access mode", set.Name, claim.Name)
		}
	}
	mounts := map[string]bool{}
	for _, m := range pod.Containers[0].VolumeMounts {
		writable, ok := known[m.Name]
		if !ok {
			j.say("%s mounts %s, which is no volume", set.Name, m.Name)
		}
		mounts[m.MountPath] = writable && !m.ReadOnly
	}
	if used := len(mounts); used != len(known) {
		j.say("%s has %d volumes and mounts %d", set.Name, len(known), used)
	}
	for _, e := range pod.Containers[0].Env {
		if !strings.HasPrefix(e.Value, "/") {
			continue
		}
		writable, ok := mounts[path.Dir(e.Value)]
		if !ok || writable != strings.HasSuffix(e.Name, "_STATE_DIR") {
			j.say("%s: %s=%s is below no mount of its kind", set.Name, e.Name, e.Value)
		}
	}
}

func (j *judge) container(set *appsv1.StatefulSet) {
	if n := len(set.Spec.Template.Spec.Containers); n != 1 {
		j.say("%s has %d containers", set.Name, n)
		return
	}
	c := set.Spec.Template.Spec.Containers[0]
	if len(c.Command) != 1 || path.Base(c.Command[0]) != c.Name || len(c.Args) > 0 {
		j.say("%s runs %v", set.Name, c.Command)
	}
	seen := map[string]bool{}
	for _, e := range c.Env {
		if seen[e.Name] {
			j.say("%s: %s is set twice", set.Name, e.Name)
		}
		seen[e.Name] = true
		if strings.HasPrefix(e.Name, "IQ") && !(j.variables[e.Name] && strings.HasPrefix(e.Name, strings.ToUpper(c.Name)+"_")) {
			j.say("%s: %s is no setting of %s", set.Name, e.Name, c.Name)
		}
	}
	ports := map[int32]bool{}
	for _, p := range c.Ports {
		ports[p.ContainerPort] = true
	}
	for _, e := range c.Env {
		_, port, _ := strings.Cut(e.Value, ":")
		if strings.HasSuffix(e.Name, "_LISTEN") && (len(c.Ports) != 1 || port != fmt.Sprint(c.Ports[0].ContainerPort)) {
			j.say("%s listens at %s and has ports %v", set.Name, e.Value, c.Ports)
		}
	}
	for what, p := range map[string]*corev1.Probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		switch {
		case p != nil && p.GRPC != nil && ports[p.GRPC.Port]:
		case p != nil && p.TCPSocket != nil && has(c.Ports, p.TCPSocket.Port):
		default:
			j.say("%s: the %s probe reaches no port", set.Name, what)
		}
	}
	if len(c.Resources.Requests) == 0 || c.Resources.Limits.Memory().IsZero() || !c.Resources.Limits.Cpu().IsZero() {
		j.say("%s: wants requests, a limit of memory and none of CPU", set.Name)
	}
}

// has tells whether a container has a port, by its name.
func has(ports []corev1.ContainerPort, p intstr.IntOrString) bool {
	return slices.ContainsFunc(ports, func(have corev1.ContainerPort) bool { return p.StrVal != "" && have.Name == p.StrVal })
}

// restricted is the Pod Security Standard of that name, and a root file system that nobody writes.
func (j *judge) restricted(set *appsv1.StatefulSet) {
	pod := set.Spec.Template.Spec
	p, c := pod.SecurityContext, pod.Containers[0].SecurityContext
	yes := func(b *bool) bool { return b != nil && *b }
	no := func(b *bool) bool { return b != nil && !*b }
	ok := p != nil && c != nil && yes(p.RunAsNonRoot) && p.RunAsUser != nil && *p.RunAsUser == 65532 && p.FSGroup != nil && *p.FSGroup == 65532 &&
		p.SeccompProfile != nil && p.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault &&
		no(c.AllowPrivilegeEscalation) && yes(c.ReadOnlyRootFilesystem) && c.Capabilities != nil && len(c.Capabilities.Add) == 0 &&
		slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) && !pod.HostNetwork && !pod.HostPID && !pod.HostIPC
	if !ok {
		j.say("%s: the pod is not restricted", set.Name)
	}
}

// stop checks that a pod is not killed before its program has stopped in order.
func (j *judge) stop(set *appsv1.StatefulSet) {
	pod := set.Spec.Template.Spec
	var sum time.Duration
	for _, e := range pod.Containers[0].Env {
		for _, suffix := range []string{"_DRAIN_TIMEOUT", "_SHUTDOWN_TIMEOUT", "_STOP_TIMEOUT"} {
			if strings.HasSuffix(e.Name, suffix) {
				d, err := time.ParseDuration(e.Value)
				if err != nil {
					j.say("%s: %s=%s: %v", set.Name, e.Name, e.Value, err)
				}
				sum += d
			}
		}
	}
	if sum == 0 {
		j.say("%s does not say how long its program takes to stop", set.Name)
	}
	if l := pod.Containers[0].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		sum += time.Duration(l.PreStop.Sleep.Seconds) * time.Second
	}
	const room = 5 * time.Second // for the process to end
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || time.Duration(*grace)*time.Second < sum+room {
		j.say("%s: the grace period is not %s longer than the %s that stopping may take", set.Name, room, sum)
	}
}

func (j *judge) service(s *corev1.Service) {
	var set *appsv1.StatefulSet
	for _, candidate := range j.cluster.sets {
		if j.matches(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, candidate) {
			set = candidate
		}
	}
	if set == nil || !j.selectsOne(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}) {
		j.say("service %s selects the pods of no or several StatefulSets", s.Name)
		return
	}
	ports := set.Spec.Template.Spec.Containers[0].Ports
	for _, p := range s.Spec.Ports {
		if !has(ports, p.TargetPort) || !slices.ContainsFunc(ports, func(c corev1.ContainerPort) bool { return c.ContainerPort == p.Port }) {
			j.say("service %s: no container has port %d as %s", s.Name, p.Port, p.TargetPort.StrVal)
		}
	}
}

// routers checks that nodes report to each router by its own name.
func (j *judge) routers() {
	want := map[string]bool{}
	given := map[string]bool{}
	for _, set := range j.cluster.sets {
		c := set.Spec.Template.Spec.Containers[0]
		if c.Name == "iqrouter" && set.Spec.Replicas != nil {
			for i := range *set.Spec.Replicas {
				want[fmt.Sprintf("%s-%d.%s:%d", set.Name, i, set.Spec.ServiceName, c.Ports[0].ContainerPort)] = true
			}
		}
		for _, e := range c.Env {
			for _, address := range strings.Split(e.Value, ",") {
				if e.Name == "IQNODE_ROUTERS" {
					given[address] = true
				}
			}
		}
	}
	if !maps.Equal(want, given) || len(want) == 0 {
		j.say("nodes report to %v, routers are %v", slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(want)))
	}
}
