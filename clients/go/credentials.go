// How a program proves to the broker who it is, and the broker to it.

package leasebroker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tokenFileInterval is the time after which the file of a token is read again.
const tokenFileInterval = 10 * time.Second

// Security is how a connection is protected. Make it with Plaintext, PlaintextAllowed, TLS or TLSFrom.
type Security struct {
	transport      credentials.TransportCredentials
	allowPlaintext bool
	err            error
}

// Plaintext does not encrypt. It is the default. Only addresses of this machine are accepted.
func Plaintext() Security { return Security{} }

// PlaintextAllowed does not encrypt, and accepts every address. Use it if the network is trusted.
func PlaintextAllowed() Security { return Security{allowPlaintext: true} }

// TLSFiles are the PEM texts of a TLS connection. The zero value trusts the system's authorities.
type TLSFiles struct {
	// CA has the certificates of the authorities that are trusted. Nil: those of the system.
	CA []byte
	// Cert and Key identify this program to the broker. Nil: it does not identify itself.
	Cert, Key []byte
	// ServerName is the name in the broker's certificate. Empty: the host of the address.
	ServerName string
}

// TLS encrypts the connection.
func TLS(files TLSFiles) Security {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName}
	if files.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(files.CA) {
			return Security{err: errors.New("credentials: CA has no certificate in PEM form")}
		}
	}
	if files.Cert != nil || files.Key != nil {
		pair, err := tls.X509KeyPair(files.Cert, files.Key)
		if err != nil {
			return Security{err: fmt.Errorf("credentials: %w", err)}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return Security{transport: credentials.NewTLS(config)}
}

// TLSPaths are the paths of the PEM files of a TLS connection. They are read for each new connection, so files that were replaced
// count from the next connection on. An empty path stands for an absent text of TLSFiles.
type TLSPaths struct {
	CA, Cert, Key string
	// ServerName is as in TLSFiles.
	ServerName string
}

// TLSFrom encrypts the connection with the texts in files.
func TLSFrom(paths TLSPaths) Security {
	security := paths.read()
	if security.err == nil {
		security.transport = fileCredentials{security.transport, paths}
	}
	return security
}

// read reads the files as they are now.
func (p TLSPaths) read() Security {
	files := TLSFiles{ServerName: p.ServerName}
	for _, file := range []struct {
		path string
		text *[]byte
	}{{p.CA, &files.CA}, {p.Cert, &files.Cert}, {p.Key, &files.Key}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.text, err = os.ReadFile(file.path); err != nil {
			return Security{err: fmt.Errorf("credentials: %w", err)}
		}
	}
	return TLS(files)
}

// fileCredentials reads the files for each connection.
type fileCredentials struct {
	credentials.TransportCredentials
	paths TLSPaths
}

func (c fileCredentials) ClientHandshake(
	ctx context.Context, authority string, connection net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	security := c.paths.read()
	if security.err != nil {
		return nil, nil, security.err
	}
	return security.transport.ClientHandshake(ctx, authority, connection)
}

func (c fileCredentials) Clone() credentials.TransportCredentials { return c }

// check returns an error if the credentials are malformed, or would send plaintext to another machine.
func (s Security) check(addresses []string) error {
	if s.err != nil || s.transport != nil || s.allowPlaintext {
		return s.err
	}
	for _, address := range addresses {
		if !isLoopback(address) {
			return fmt.Errorf("%s is not an address of this machine: use Credentials(TLS(…)), or "+
				"Credentials(PlaintextAllowed()) if the network is trusted", address)
		}
	}
	return nil
}

func (s Security) transportCredentials() credentials.TransportCredentials {
	if s.transport == nil {
		return insecure.NewCredentials()
	}
	return s.transport
}

// TokenSource returns the bearer token of a call. `fresh` is true if the broker has refused the token before. If it returns an error,
// the call waits and tries again, as it does while no broker answers. White space around the token is removed. It should return when its
// context ends. Otherwise the call goes on without it, and asks again.
type TokenSource func(ctx context.Context, fresh bool) (string, error)

// ask calls the source in a goroutine of its own, because it may not return: a file can be on a file system that does not answer.
func (s TokenSource) ask(ctx context.Context, fresh bool) (string, error) {
	type answer struct {
		token string
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		given := answer{err: errGoexit}
		defer func() {
			if value := recover(); value != nil {
				given.err = fmt.Errorf("%v", value)
			}
			answers <- given
		}()
		given.token, given.err = s(ctx, fresh)
	}()
	select {
	case given := <-answers:
		return given.token, given.err
	case <-ctx.Done():
		return "", fmt.Errorf("its source has not returned: %w", ctx.Err())
	}
}

// errTokenIsFile is the error of TokenText for the name of a file. It does not pass, so calls do not wait for its end.
var errTokenIsFile = errors.New("the token is the name of a file: use TokenFile")

// TokenText is a token that never changes. If the text is the name of a file, every call fails with the code UNAUTHENTICATED.
// Otherwise the name would be sent as the token. TokenFile reads a file.
func TokenText(token string) TokenSource {
	info, err := os.Stat(token)
	isFile := err == nil && info.Mode().IsRegular()
	return func(context.Context, bool) (string, error) {
		if isFile {
			return "", errTokenIsFile
		}
		return token, nil
	}
}

// TokenFile is a token in a file, which is read again every 10 s, and after the broker has refused the token.
func TokenFile(path string) TokenSource {
	var mu sync.Mutex
	var token string
	var readAt time.Time
	return func(_ context.Context, fresh bool) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if fresh || readAt.IsZero() || time.Since(readAt) >= tokenFileInterval {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			trimmed := strings.TrimSpace(string(text))
			if trimmed == "" {
				// A program that replaces the file empties it first.
				return "", fmt.Errorf("%s is empty", path)
			}
			token, readAt = trimmed, time.Now()
		}
		return token, nil
	}
}
