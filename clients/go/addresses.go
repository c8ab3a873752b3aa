// The addresses of brokers: their forms, and the ones that are on this machine.

package leasebroker

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// nameScheme is the beginning of an address that stands for all addresses of its name.
const nameScheme = "dns:///"

var webScheme = regexp.MustCompile(`(?i)^https?://`)

// readAddresses returns the addresses of an option: one, or several with commas between them. It returns an error for one of another
// form. gRPC would take a name without a port for port 443, and try for ever to reach an address that cannot exist.
func readAddresses(text string) ([]string, error) {
	var addresses []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			addresses = append(addresses, part)
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("the address is empty; pass host:port")
	}
	for _, address := range addresses {
		path, isSocket := strings.CutPrefix(address, "unix:")
		name, isName := strings.CutPrefix(address, nameScheme)
		switch scheme := webScheme.FindString(address); {
		case scheme != "":
			return nil, fmt.Errorf("address %s: pass host:port, and leave out %s; Credentials(TLS(…)) turns TLS on", address, scheme)
		case len(addresses) > 1 && (isSocket || isName):
			return nil, fmt.Errorf("address %s: it must be alone; a list has host:port", address)
		case isSocket && path != "" || isHostAndPort(name):
			continue
		}
		return nil, fmt.Errorf("address %s: pass host:port, such as 127.0.0.1:50051, or dns:///host:port", address)
	}
	return addresses, nil
}

func isHostAndPort(address string) bool {
	host, text, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") {
		return false
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

func isLoopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(address, nameScheme))
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
