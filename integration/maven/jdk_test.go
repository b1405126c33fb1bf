package maven

import "testing"

func TestVersionOfAJDKIsReadFromItsRelease(t *testing.T) {
	for text, want := range map[string]int{"IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25.0.1\"\n": 25, "JAVA_VERSION=\"17.0.15\"": 17, "nothing": 0} {
		if got, _ := parseRelease(text); got != want {
			t.Errorf("%q is version %d, want %d", text, got, want)
		}
	}
}
