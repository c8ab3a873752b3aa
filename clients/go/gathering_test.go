package leasebroker

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

func TestSettlerGathersAsTheVectorsSay(t *testing.T) {
	text, err := os.ReadFile("../vectors/gathering.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Name           string
			Slots, Running int
			HandlerMs      []float64 `json:"handler_ms"`
			WaitMs         float64   `json:"wait_ms"`
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, c := range vectors.Cases {
		gathering := gathering{slots: c.Slots}
		for _, taken := range c.HandlerMs {
			gathering.note(time.Duration(taken * float64(time.Millisecond)))
		}
		if wait := gathering.wait(c.Running); wait != time.Duration(c.WaitMs*float64(time.Millisecond)) {
			t.Errorf("%s: waits for %v", c.Name, wait)
		}
	}
}
