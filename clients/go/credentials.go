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

// Security is how a connection is protected. Make it with Plaintext, PlaintextAllowed or TLS.
type Security struct {
	transport      credentials.TransportCredentials
	allowPlaintext bool
	err            error
}

// Plaintext does not encrypt. It is the default. Only addresses of this machine are accepted.
func Plaintext() Security { return Security{} }

// PlaintextAllowed does not encrypt, and accepts every address. Use it if the network is trusted.
func PlaintextAllowed() Security { return Security{allowPlaintext: true} }

// TLSFiles are the certificates of a TLS connection, each as a PEM text or as the path of its file. The zero value trusts the system's
// authorities. Files are read for each new connection, so those that were replaced count from the next connection on.
type TLSFiles struct {
	// CA has the certificates of the authorities that are trusted. Without it and CAFile: those of the system.
	CA     []byte
	CAFile string
	// Cert and Key identify this program to the broker. Without them and their files, it does not identify itself.
	Cert, Key         []byte
	CertFile, KeyFile string
	// ServerName is the name in the broker's certificate. Empty: the host of the address.
	ServerName string
}

// TLS encrypts the connection.
func TLS(files TLSFiles) Security {
	config, err := files.read()
	if err != nil {
		return Security{err: fmt.Errorf("credentials: %w", err)}
	}
	return Security{transport: fileCredentials{credentials.NewTLS(config), files}}
}

// read reads the files as they are now.
func (f TLSFiles) read() (*tls.Config, error) {
	for _, file := range []struct {
		path string
		text *[]byte
	}{{f.CAFile, &f.CA}, {f.CertFile, &f.Cert}, {f.KeyFile, &f.Key}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.text, err = os.ReadFile(file.path); err != nil {
			return nil, err
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(f.CA) {
			return nil, errors.New("CA has no certificate in PEM form")
		}
	}
	if f.Cert == nil && f.Key == nil {
		return config, nil
	}
	pair, err := tls.X509KeyPair(f.Cert, f.Key)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

// fileCredentials reads the files for each connection.
type fileCredentials struct {
	credentials.TransportCredentials
	files TLSFiles
}

func (c fileCredentials) ClientHandshake(
	ctx context.Context, authority string, connection net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.files.read()
	if err != nil {
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, connection)
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
