// Translation between the values of columns and Go's types.

package leasebroker

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// Row has the values of columns by name.
//
// A value that arrives is a bool, int64, float64, string, []byte, time.Time in UTC, Decimal, or nil for NULL. A value that
// is sent can also be of another integer type, a float32, of a type with one of these as its base, such as json.RawMessage, or a
// pointer to a value, or a driver.Valuer such as sql.NullString. A nil pointer is NULL. A value of a newer API, which this library does not know, arrives as an error.
type Row map[string]any

// longestDelay is the longest delay that the broker accepts.
const longestDelay = 366 * 24 * time.Hour

// delayProto returns the message for a delay. A negative one is zero, and a longer one than the broker accepts is cut.
func delayProto(delay time.Duration) *durationpb.Duration {
	return durationpb.New(min(max(delay, 0), longestDelay))
}

// optionalDelay returns the message for a delay, or nil if there is none.
func optionalDelay(delay *time.Duration) *durationpb.Duration {
	if delay == nil {
		return nil
	}
	return delayProto(*delay)
}

// Decimal is an exact decimal number as text, such as "-12.50".
type Decimal string

var decimalDigits = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?$`)

func rowToProto(row Row) (map[string]*pb.ColumnValue, error) {
	if len(row) == 0 {
		return nil, nil
	}
	values := make(map[string]*pb.ColumnValue, len(row))
	for column, value := range row {
		if err := checkText("the name", column); err != nil {
			return nil, fmt.Errorf("column %q: %w", column, err)
		}
		message, err := valueToProto(value)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", column, err)
		}
		values[column] = message
	}
	return values, nil
}

func valueToProto(value any) (*pb.ColumnValue, error) {
	given := reflect.ValueOf(value)
	if !given.IsValid() || given.Kind() == reflect.Pointer && given.IsNil() {
		return &pb.ColumnValue{Kind: &pb.ColumnValue_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}, nil
	}
	switch value := value.(type) {
	case time.Time:
		if year := value.UTC().Year(); year < 1 || year > 9999 {
			return nil, fmt.Errorf("the moment %v is outside the years 0001 to 9999", value)
		}
		return &pb.ColumnValue{Kind: &pb.ColumnValue_TimestampValue{TimestampValue: timestamppb.New(value)}}, nil
	case Decimal:
		if !decimalDigits.MatchString(string(value)) {
			return nil, fmt.Errorf("the decimal %q must be decimal digits such as -12.50", value)
		}
		return &pb.ColumnValue{Kind: &pb.ColumnValue_DecimalValue{DecimalValue: string(value)}}, nil
	case driver.Valuer:
		plain, err := value.Value()
		if err != nil {
			return nil, err
		}
		return valueToProto(plain)
	}
	switch {
	case given.Kind() == reflect.Pointer:
		return valueToProto(given.Elem().Interface())
	case given.Kind() == reflect.Bool:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_BoolValue{BoolValue: given.Bool()}}, nil
	case given.Kind() == reflect.String:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_StringValue{StringValue: given.String()}}, checkText("the text", given.String())
	case given.Kind() == reflect.Slice && given.Type().Elem().Kind() == reflect.Uint8:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_BytesValue{BytesValue: given.Bytes()}}, nil
	case given.CanFloat():
		if math.IsNaN(given.Float()) {
			return nil, errors.New("NaN is not a number")
		}
		return &pb.ColumnValue{Kind: &pb.ColumnValue_DoubleValue{DoubleValue: given.Float()}}, nil
	case given.CanInt():
		return &pb.ColumnValue{Kind: &pb.ColumnValue_Int64Value{Int64Value: given.Int()}}, nil
	case given.CanUint() && given.Uint() <= math.MaxInt64:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_Int64Value{Int64Value: int64(given.Uint())}}, nil
	case given.CanUint():
		return nil, fmt.Errorf("%d is too large for a signed integer of 64 bits; pass a Decimal", value)
	default:
		return nil, fmt.Errorf("%T is not a type of a column", value)
	}
}

// checkText returns an error if a text is not valid UTF-8. gRPC cannot encode a request with such a text.
func checkText(name, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return fmt.Errorf("%s is not valid UTF-8", name)
}

func rowFromProto(values map[string]*pb.ColumnValue) Row {
	row := make(Row, len(values))
	for column, value := range values {
		row[column] = valueFromProto(column, value)
	}
	return row
}

func valueFromProto(column string, value *pb.ColumnValue) any {
	switch kind := value.GetKind().(type) {
	case *pb.ColumnValue_BoolValue:
		return kind.BoolValue
	case *pb.ColumnValue_Int64Value:
		return kind.Int64Value
	case *pb.ColumnValue_DoubleValue:
		return kind.DoubleValue
	case *pb.ColumnValue_StringValue:
		return kind.StringValue
	case *pb.ColumnValue_BytesValue:
		return kind.BytesValue
	case *pb.ColumnValue_TimestampValue:
		return kind.TimestampValue.AsTime()
	case *pb.ColumnValue_DecimalValue:
		return Decimal(kind.DecimalValue)
	case *pb.ColumnValue_NullValue:
		return nil
	default:
		// Not NULL: the broker has a kind of value that this library does not know.
		return fmt.Errorf("column %q has a value of a newer API", column)
	}
}
