package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
)

// Names of the members of an archive. Those of artifacts are their keys after a prefix.
const (
	manifestName   = "agenthost-backup.json"
	artifactPrefix = "artifacts/"
	databaseName   = "database"
)

// writeArchive writes the manifest, the artifacts and the dump.
func (cfg Config) writeArchive(ctx context.Context, m Manifest, dump io.Reader, w io.Writer) error {
	archive := tar.NewWriter(w)
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}

	if err := writeMember(archive, manifestName, int64(len(text)), m.Created); err != nil {
		return err
	}

	if _, err := archive.Write(text); err != nil {
		return writing(err)
	}

	for _, a := range m.Artifacts {
		if err := cfg.writeArtifact(ctx, archive, a, m.Created); err != nil {
			return err
		}
	}

	if err := writeMember(archive, databaseName, m.Database.Size, m.Created); err != nil {
		return err
	}

	content := newVerified(ctx, dump, m.Database.SHA256)
	if _, err := io.Copy(archive, content); err != nil {
		return writing(err)
	}

	return writing(archive.Close())
}

func (cfg Config) writeArtifact(ctx context.Context, archive *tar.Writer, a Artifact, created time.Time) error {
	blob, err := cfg.Artifacts.Open(ctx, a.Key)
	if err != nil {
		return fmt.Errorf("read artifact: %w", err)
	}

	defer func() { _ = blob.Close() }() // it was only read
	if err := writeMember(archive, artifactPrefix+a.Key, a.Size, created); err != nil {
		return err
	}

	ref, _ := artifact.ParseKey(a.Key) // which the sizes were listed by
	n, err := io.Copy(archive, newVerified(ctx, blob.Content, ref.Hash))
	if err == nil && n != a.Size || errors.Is(err, tar.ErrWriteTooLong) || errors.Is(err, errHash) {
		return fmt.Errorf("the stored file %s is damaged: upload it again, or delete the tool or skill and the deployments that have it", a.Key)
	}

	return writing(err)
}

// writeMember writes the header of a member.
func writeMember(archive *tar.Writer, name string, size int64, created time.Time) error {
	return writing(archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: created, Format: tar.FormatPAX}))
}

func writing(err error) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("write backup: %w", err)
}

// readArchive reads an archive, calls manifest with its manifest, and member for each further
// member. Every member is the next one of the manifest, has its size, and is a regular file. What
// member does not read is skipped.
func readArchive(archive *os.File, manifest func(Manifest) error, member func(key string, content *io.SectionReader, hash string) error) (Manifest, error) {
	info, err := archive.Stat()
	if err != nil {
		return Manifest{}, err
	}

	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return Manifest{}, err
	}

	r := &reader{tar.NewReader(archive), archive}
	content, err := r.next(manifestName, -1)
	if err != nil {
		return Manifest{}, err
	}

	text, err := io.ReadAll(content)
	if err != nil {
		return Manifest{}, damaged(err)
	}

	m, err := parseManifest(text, info.Size())
	if err != nil {
		return m, err
	}

	if err := manifest(m); err != nil {
		return m, err
	}

	for _, a := range m.Artifacts {
		content, err := r.next(artifactPrefix+a.Key, a.Size)
		if err != nil {
			return m, err
		}

		ref, _ := artifact.ParseKey(a.Key) // the manifest was checked
		if err := member(a.Key, content, ref.Hash); err != nil {
			return m, err
		}
	}

	content, err = r.next(databaseName, m.Database.Size)
	if err != nil {
		return m, err
	}

	if err := member("", content, m.Database.SHA256); err != nil {
		return m, err
	}

	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w: it does not end after the database", errFormat)
	}

	return m, nil
}

type reader struct {
	tar  *tar.Reader
	file *os.File
}

// next returns the content of the next member, which must have the name and the size; a negative
// one is at most maxManifest.
func (r *reader) next(name string, size int64) (*io.SectionReader, error) {
	header, err := r.tar.Next()
	if err != nil {
		return nil, damaged(err)
	}

	wrong := size >= 0 && header.Size != size || size < 0 && header.Size > maxManifest
	for record := range header.PAXRecords {
		wrong = wrong || record != "path" && record != "size" // such as those of sparse files
	}

	if header.Typeflag != tar.TypeReg || header.Name != name || wrong {
		return nil, fmt.Errorf("%w: a member is %q with %d bytes, in place of %q", errFormat, header.Name, header.Size, name)
	}

	at, err := r.file.Seek(0, io.SeekCurrent) // archive/tar does not read ahead
	if err != nil {
		return nil, err
	}

	return io.NewSectionReader(r.file, at, header.Size), nil
}

// damaged returns the error of an archive that cannot be read.
func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is shorter than its manifest", errFormat)
	}

	return fmt.Errorf("%w: %w", errFormat, err)
}

// errHash is the error of content that has another hash.
var errHash = errors.New("the content has another SHA-256")

// verified reads content until its end, at which it compares the hash. It ends with its context.
type verified struct {
	ctx  context.Context
	r    io.Reader
	hash hash.Hash
	want string
}

func newVerified(ctx context.Context, r io.Reader, want string) *verified {
	return &verified{ctx, r, sha256.New(), want}
}

func (v *verified) Read(p []byte) (int, error) {
	if err := context.Cause(v.ctx); err != nil {
		return 0, err
	}

	n, err := v.r.Read(p)
	v.hash.Write(p[:n])
	if errors.Is(err, io.EOF) && v.want != "" && hex.EncodeToString(v.hash.Sum(nil)) != v.want {
		err = errHash
	}

	return n, err
}

// hashOf returns the size and the SHA-256 of a file, and seeks to its start.
func hashOf(ctx context.Context, f *os.File) (int64, string, error) {
	content := newVerified(ctx, f, "")
	var err error
	var size int64
	if _, err = f.Seek(0, io.SeekStart); err == nil {
		size, err = io.Copy(io.Discard, content)
	}

	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}

	return size, hex.EncodeToString(content.hash.Sum(nil)), err
}
