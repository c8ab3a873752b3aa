package leasebroker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/lease-broker/clients/go"
)

// TestReadmeWorkerRunsInAnEmptyModule builds the worker of the README as it is printed, except for the address.
func TestReadmeWorkerRunsInAnEmptyModule(t *testing.T) {
	b := newBroker(t)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, source, _ := strings.Cut(string(text), "```go\npackage main")
	source, _, found := strings.Cut(source, "```")
	if !found {
		t.Fatal("the README has no program")
	}
	source = strings.ReplaceAll("package main"+source, "127.0.0.1:50051", b.address)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	library, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"mod", "init", "example.org/worker"},
		{"mod", "edit", "-replace", "example.com/lease-broker/clients/go=" + library},
		{"mod", "tidy"},
		{"build", "-o", "worker", "."},
	} {
		command := exec.Command("go", arguments...)
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", arguments, err, output)
		}
	}
	b.enqueue("orders", leasebroker.Row{"customer": "Ada"}, leasebroker.Row{"customer": nil})
	worker := exec.Command(filepath.Join(folder, "worker"))
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Process.Kill() }()
	for until := time.Now().Add(30 * time.Second); len(b.rows("orders", "completed"))+len(b.rows("orders", "dead")) < 2; {
		if time.Now().After(until) {
			t.Fatal("the items were not processed within 30 s")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if dead := b.rows("orders", "dead"); len(dead) != 1 || dead[0].Error != "DeadLetter: no customer" {
		t.Errorf("%+v", dead)
	}
	if mail := b.rows("mail", "ready"); len(mail) != 1 {
		t.Errorf("%d rows of mail", len(mail))
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}
