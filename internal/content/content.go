// Package content checks the images and files of messages: their types, which are those of the
// bytes, and their bounds, which are in package runvalue. It decodes no image.
package content

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/runvalue"
)

// Types of bytes that are not those of an image.
const (
	PDF  = "application/pdf"
	Text = "text/plain"
)

// maxMediaType bounds a declared type with its parameters, in bytes. It is stored and indexed.
const maxMediaType = 255

// Part is a part of a message, as that of the runtime's wire.
type Part struct {
	Type, Text, Name, MediaType string

	Data     []byte
	UploadID string
}

// Error is the fault of a field. Its text follows the name of the field.
type Error struct{ Field, Fault string }

func (e *Error) Error() string { return e.Field + e.Fault }

func fault(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

// CheckFields returns the first fault of the fields of a part, without its bytes. field is the name
// of the part.
func CheckFields(field string, p Part) error {
	hasBytes := len(p.Data) > 0 || p.UploadID != ""
	switch p.Type {
	case runvalue.PartText:
		switch {
		case strings.TrimSpace(p.Text) == "":
			return fault(field+".text", " is required")
		case hasBytes || p.Name != "" || p.MediaType != "":
			return fault(field, ": a text has no name, mediaType, data and uploadId")
		}

		return nil
	case runvalue.PartImage, runvalue.PartFile:
	default:
		return fault(field+".type", " must be text, image or file")
	}

	switch {
	case p.Text != "":
		return fault(field+".text", " is that of the type text")
	case !hasBytes:
		return fault(field+".data", " or uploadId is required")
	case len(p.Data) > 0 && p.UploadID != "":
		return fault(field+".data", " excludes uploadId")
	}

	return CheckName(field+".name", p.Name)
}

// CheckName returns the fault of the name of a file.
func CheckName(field, name string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(name) > runvalue.MaxPartName || !utf8.ValidString(name) || strings.ContainsFunc(name, control) {
		return fault(field, " must have at most %d bytes, without control characters", runvalue.MaxPartName)
	}

	return nil
}

// typeOf returns the type of bytes: that of an image which models accept, PDF or text, and "" for
// others.
func typeOf(data []byte) string {
	begins := func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) }
	switch {
	case begins("\x89PNG\r\n\x1a\n"):
		return "image/png"
	case begins("\xff\xd8\xff"):
		return "image/jpeg"
	case begins("GIF87a"), begins("GIF89a"):
		return "image/gif"
	case begins("RIFF") && len(data) > 12 && string(data[8:12]) == "WEBP":
		return "image/webp"
	case begins("%PDF-"):
		return PDF
	case len(data) > 0 && utf8.Valid(data) && !bytes.Contains(data, []byte{0}):
		return Text
	}

	return ""
}

// CheckBytes returns the type of bytes, which must agree with the declared type unless that is "".
// field is the name of what declares the type.
func CheckBytes(field, declared string, data []byte) (string, error) {
	found := typeOf(data)
	if found == "" {
		return "", fault(field, ": neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8")
	}

	most := runvalue.MaxFileBytes
	if IsImage(found) {
		most = runvalue.MaxImageBytes
	}

	if len(data) > most {
		return "", fault(field, ": %s must have at most %d bytes", found, most)
	}

	return Agree(field, declared, found)
}

// Agree returns the type of bytes that are of the type found, and of which a type is declared, or
// "". A text keeps its declared type.
func Agree(field, declared, found string) (string, error) {
	if declared == "" {
		return found, nil
	}

	if len(declared) > maxMediaType {
		return "", fault(field, ": a type must have at most %d bytes", maxMediaType)
	}

	media, _, err := mime.ParseMediaType(declared)
	switch {
	case err == nil && media == found:
		return found, nil
	case err == nil && isText(found) && isText(media):
		return media, nil
	}

	return "", fault(field, ": the type is %q, but the bytes are %s", declared, found)
}

// CheckKind returns the fault of a part whose type is not that of its bytes.
func CheckKind(field, kind, media string) error {
	if IsImage(media) != (kind == runvalue.PartImage) {
		return fault(field+".type", ": the type is %s, but the bytes are %s", kind, media)
	}

	return nil
}

// IsImage reports whether a type is that of an image which is not a text.
func IsImage(media string) bool { return strings.HasPrefix(media, "image/") && !isText(media) }

// isText reports whether a type is that of a text.
func isText(media string) bool {
	name := strings.TrimPrefix(media, "application/")
	switch strings.TrimPrefix(name, "x-") {
	case "json", "xml", "yaml", "toml", "javascript", "sql", "sh":
		return name != media
	}

	_, suffix, _ := strings.Cut(media, "+")
	return strings.HasPrefix(media, "text/") || suffix == "json" || suffix == "xml" || suffix == "yaml"
}

// Sum is what the images and files of one message have so far.
type Sum struct {
	Bytes int // of the images and files

	images, imageBytes int
}

// Add adds an image or a file of a type, and returns the fault of the bounds of a message.
func (s *Sum) Add(field, media string, size int) error {
	s.Bytes += size
	if IsImage(media) {
		s.images++
		s.imageBytes += size
	}

	switch {
	case s.images > runvalue.MaxImages:
		return fault(field, ": a message must have at most %d images", runvalue.MaxImages)
	case s.imageBytes > runvalue.MaxImagesBytes:
		return fault(field, ": the images of a message must have at most %d bytes together", runvalue.MaxImagesBytes)
	}

	return nil
}

// CheckTotal returns the fault of the bytes of all images and files of a request.
func CheckTotal(field string, size int) error {
	if size > runvalue.MaxContentBytes {
		return fault(field, ": the images and files of a request must have at most %d bytes together", runvalue.MaxContentBytes)
	}

	return nil
}
