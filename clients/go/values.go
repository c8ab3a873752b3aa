// Translation between the values of columns and Go's types.

package leasebroker

import (
	"errors"
	"fmt"
	"math"
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
// is sent can also be of any other integer type, or a float32. A value of a newer API, which this library does not know,
// arrives as an error.
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
	switch value := value.(type) {
	case nil:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}, nil
	case bool:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_BoolValue{BoolValue: value}}, nil
	case string:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_StringValue{StringValue: value}}, checkText("the text", value)
	case []byte:
		return &pb.ColumnValue{Kind: &pb.ColumnValue_BytesValue{BytesValue: value}}, nil
	case float64:
		if math.IsNaN(value) {
			return nil, errors.New("NaN is not a number")
		}
		return &pb.ColumnValue{Kind: &pb.ColumnValue_DoubleValue{DoubleValue: value}}, nil
	case float32:
		return valueToProto(float64(value))
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
	case uint64:
		if value > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for a signed integer of 64 bits; pass a Decimal", value)
		}
		return integer(int64(value)), nil
	case uint:
		return valueToProto(uint64(value))
	case int64:
		return integer(value), nil
	case int:
		return integer(int64(value)), nil
	case int32:
		return integer(int64(value)), nil
	case int16:
		return integer(int64(value)), nil
	case int8:
		return integer(int64(value)), nil
	case uint32:
		return integer(int64(value)), nil
	case uint16:
		return integer(int64(value)), nil
	case uint8:
		return integer(int64(value)), nil
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

func integer(value int64) *pb.ColumnValue {
	return &pb.ColumnValue{Kind: &pb.ColumnValue_Int64Value{Int64Value: value}}
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
