package leasebroker

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

func TestValuesReturnAsTheyWereSent(t *testing.T) {
	instant := time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	for _, value := range []any{nil, true, int64(math.MinInt64), 1.5, "ż", []byte{0}, instant, Decimal("-12.50")} {
		message, err := valueToProto(value)
		if err != nil {
			t.Fatal(err)
		}
		if back := valueFromProto("c", message); !reflect.DeepEqual(back, value) {
			t.Errorf("%#v returns as %#v", value, back)
		}
	}
}

func TestValueThatNoColumnHoldsIsAnError(t *testing.T) {
	values := []any{
		uint64(math.MaxUint64), struct{}{}, "\xff", Decimal("\xff"), Decimal("1."), math.NaN(), float32(math.NaN()),
		time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, value := range values {
		if _, err := rowToProto(Row{"c": value}); err == nil || !strings.Contains(err.Error(), `column "c"`) {
			t.Errorf("%#v: %v", value, err)
		}
	}
}

func TestValueOfANamedTypeIsThatOfItsBase(t *testing.T) {
	type (
		status  string
		number  int16
		counter uint8
		rate    float32
		flag    bool
	)
	text, instant := "ż", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct{ value, want any }{
		{status("new"), "new"}, {number(-7), int64(-7)}, {counter(7), int64(7)}, {rate(1.5), 1.5}, {flag(true), true},
		{json.RawMessage("{}"), []byte("{}")}, {uint8(200), int64(200)}, {&text, "ż"}, {&instant, instant}, {(*string)(nil), nil},
		{(*time.Time)(nil), nil}, {sql.NullString{}, nil}, {sql.NullInt64{Int64: 7, Valid: true}, int64(7)}, {(*sql.NullString)(nil), nil},
	} {
		message, err := valueToProto(test.value)
		if back := valueFromProto("c", message); err != nil || !reflect.DeepEqual(back, test.want) {
			t.Errorf("%#v is sent as %#v, %v", test.value, back, err)
		}
	}
}

func TestTypedColumns(t *testing.T) {
	item := &Item{Columns: Row{"number": int64(7), "nothing": nil}}
	if number, err := item.Int64("number"); number != 7 || err != nil {
		t.Errorf("%d, %v", number, err)
	}
	for _, column := range []string{"nothing", "missing"} {
		if _, err := item.Int64(column); err == nil {
			t.Errorf("%s has a value", column)
		}
	}
	if _, err := item.Text("number"); err == nil {
		t.Error("a number is a text")
	}
	if null, err := item.IsNull("nothing"); !null || err != nil {
		t.Errorf("%t, %v", null, err)
	}
	if null, err := item.IsNull("number"); null || err != nil {
		t.Errorf("%t, %v", null, err)
	}
	_, err := item.IsNull("missing")
	if err == nil || err.Error() != `no column "missing"; the item has nothing, number` {
		t.Error(err)
	}
}

func TestValueOfANewerAPIIsNotNull(t *testing.T) {
	item := itemFromProto(&pb.Lease{Item: &pb.Item{Columns: map[string]*pb.ColumnValue{"c": {}}}})
	_, textErr := item.Text("c")
	_, nullErr := item.IsNull("c")
	for _, err := range []error{textErr, nullErr} {
		if err == nil || err.Error() != `column "c" has a value of a newer API` {
			t.Error(err)
		}
	}
	if _, err := rowToProto(item.Columns); err == nil {
		t.Error("the value was sent")
	}
}

type silent struct{}

func (silent) Error() string { return "" }

func TestErrorTexts(t *testing.T) {
	for _, test := range []struct {
		err  error
		text string
	}{
		{errors.New("bad"), "bad"},
		{errors.New(""), "errors.errorString"},
		{errors.Join(errors.New("bad"), errors.New("worse")), "bad\nworse"},
		{fmt.Errorf("ship: %w", errors.New("bad")), "ship: bad"},
		{fmt.Errorf("ship: %w", silent{}), "ship: "},
		{&os.PathError{Op: "open", Path: "a", Err: os.ErrNotExist}, "fs.PathError: open a: file does not exist"},
		{Retry(errors.New("why")), "Retry: why"},
		{fmt.Errorf("ship: %w", DeadLetter(errors.New("why"))), "DeadLetter: ship: why"},
		{Retry(nil), "Retry"},
		{Retry(DeadLetter(errors.New("why"))), "Retry: why"},
		{silent{}, "leasebroker.silent"},
		{&panicError{"broken"}, "panic: broken"},
	} {
		if text := errorText(test.err); text != test.text {
			t.Errorf("%q is not %q", text, test.text)
		}
	}
	if text := cutText(strings.Repeat("ż", 2000) + "\xff"); len([]rune(text)) != maxErrorLength {
		t.Errorf("%d characters", len([]rune(text)))
	}
}

func TestErrorTellsATestHowTheItemEnds(t *testing.T) {
	kinds := []error{ErrRetry, ErrDeadLetter, ErrRelease}
	for _, test := range []struct {
		err     error
		kind    error
		delay   time.Duration
		delayed bool
	}{
		{Retry(errors.New("why")), ErrRetry, 0, false},
		{fmt.Errorf("ship: %w", RetryAfter(errors.New("why"), time.Minute)), ErrRetry, time.Minute, true},
		{DeadLetter(errors.New("why")), ErrDeadLetter, 0, false},
		{Release(), ErrRelease, 0, false},
		{ReleaseAfter(time.Hour), ErrRelease, time.Hour, true},
		{errors.New("why"), nil, 0, false},
	} {
		for _, kind := range kinds {
			if errors.Is(test.err, kind) != (kind == test.kind) {
				t.Errorf("%v is %v: %v", test.err, kind, kind != test.kind)
			}
		}
		if delay, delayed := DelayOf(test.err); delay != test.delay || delayed != test.delayed {
			t.Errorf("%v has the delay %v, %v", test.err, delay, delayed)
		}
	}
}

func TestItemOfATestIsHeld(t *testing.T) {
	item := &Item{Key: "7"}
	item.SaveCheckpoint([]byte("page 7"))
	if !item.IsHeld() || item.InDoubt() || item.TimeLeft() < time.Hour {
		t.Errorf("%v, %v, %v", item.IsHeld(), item.InDoubt(), item.TimeLeft())
	}
}

func TestOutermostErrorSaysHowTheItemEnds(t *testing.T) {
	lease := &heldLease{}
	dead, later := DeadLetter(errors.New("why")), RetryAfter(errors.New("why"), time.Minute)
	for _, test := range []struct {
		err     error
		rpc     string
		dead    bool
		delayed bool
	}{
		{RetryAfter(dead, time.Minute), rpcFail, false, true},
		{fmt.Errorf("ship: %w", DeadLetter(fmt.Errorf("ship: %w", Release()))), rpcFail, true, false},
		{DeadLetter(later), rpcFail, true, false},
		{errors.Join(errors.New("other"), later, dead), rpcFail, false, true},
		{fmt.Errorf("ship: %w", Release()), rpcRelease, false, false},
	} {
		got := endingOf(lease, nil, test.err, "", 0)
		if got.rpc != test.rpc || got.dead != test.dead || (got.delay != nil) != test.delayed {
			t.Errorf("%v: %s, dead %v, delay %v", test.err, got.rpc, got.dead, got.delay)
		}
	}
}

func TestDelaysAreCut(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{-1: 0, 1: 1, math.MaxInt64: longestDelay} {
		if got := delayProto(delay).AsDuration(); got != want {
			t.Errorf("%v: %v", delay, got)
		}
	}
}

func TestPlaintextToAnotherMachineIsRefused(t *testing.T) {
	for address, local := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "dns:///localhost:1": true, "unix:/run/broker": true,
		"LOCALHOST:1": true, "127.0.0.2:2/127.0.0.1:1": false, "db.example:1/127.0.0.1:1": false, "dns://db.example/127.0.0.1:1": false,
		"db.example:1": false, "dns:///db.example:1": false, "10.0.0.1:1": false, "127.0.0.1:1,10.0.0.1:1": false,
	} {
		if _, err := newOptions(address, nil); (err == nil) != local {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := newOptions("db.example:1", []Option{Credentials(PlaintextAllowed())}); err != nil {
		t.Error(err)
	}
}

func TestMalformedAddressesAreRefused(t *testing.T) {
	for _, address := range []string{
		"localhost", "127.0.0.1", "localhost:99999", "localhost:0", "localhost: 5", "localhost:", ":50051", "http://127.0.0.1:21452",
		"https://broker", "a:1;b:2", "::1:50051", "dns:///localhost", "dns:localhost:1", "ipv4:127.0.0.1:1", "unix:", "localhost,localhost:1",
		"dns:///localhost:1,localhost:2", "localhost:1,unix:/run/broker",
	} {
		if _, err := NewClient(address, Credentials(PlaintextAllowed())); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := NewClient("http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "leave out http://") {
		t.Error(err)
	}
	for _, address := range []string{"db.example:1", "[::1]:65535", "dns:///db.example:1", "unix:/run/broker", "a:1, b:2"} {
		if _, err := NewClient(address, Credentials(PlaintextAllowed())); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func nothing(context.Context, *Item) (*Result, error) { return nil, nil }

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	if _, err := NewWorker("127.0.0.1:1", "work", nothing); err != nil {
		t.Error(err)
	}
	for name, option := range map[string]Option{
		"Concurrency": Concurrency(0), "MaxStuck": MaxStuck(-1), "Wait": Wait(-1), "a long Wait": Wait(math.MaxInt64), "StuckAfter": StuckAfter(0), "WorkerID": WorkerID(""),
		"Groups": Groups(make([]string, 101)...), "a nil Logger": Logger(nil), "a nil Middleware": Use(nil), "a nil Option": nil,
	} {
		if _, err := NewWorker("127.0.0.1:1", "work", nothing, option); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
