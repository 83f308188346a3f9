package modeltest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	_ "image/gif"  // registers the format
	_ "image/jpeg" // registers the format
	_ "image/png"  // registers the format
	"slices"
)

// Limits of the images in a request: bytes in base64, and pixels of a side. A request of many
// images has a lower limit.
const (
	maxImageData = 5 << 20
	maxImageSide = 8000
	manyImages   = 20
	maxManySide  = 2000
)

// image checks an image in a tool result.
func (c *anthropicChecker) image(source json.RawMessage) *refusal {
	var s struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	if json.Unmarshal(source, &s) != nil || s.Type != "base64" {
		return bad("image.source: Input should be 'base64'")
	}
	if !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, s.MediaType) {
		return bad("image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s.Data)
	if err != nil || s.Data == "" {
		return bad("image.source.base64: invalid base64 data")
	}
	if len(s.Data) > maxImageData {
		return bad("image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", len(s.Data), maxImageData)
	}
	isWebP := len(data) > 12 && string(data[8:12]) == "WEBP"
	if isWebP && s.MediaType == "image/webp" {
		return c.sides(0)
	}
	size, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return bad("Could not process image")
	}
	if "image/"+format != s.MediaType {
		return bad("image.source.base64.data: The image was specified using the %s media type, but the image appears to be a image/%s image", s.MediaType, format)
	}
	return c.sides(max(size.Width, size.Height))
}

// sides checks the larger side of one more image. If there are many, the limit is lower for all.
func (c *anthropicChecker) sides(side int) *refusal {
	c.images++
	c.side = max(c.side, side)
	switch {
	case c.side > maxImageSide:
		return bad("image.source.base64.data: At least one of the image dimensions exceed max allowed size: %d pixels", maxImageSide)
	case c.images > manyImages && c.side > maxManySide:
		return bad("image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: %d pixels", maxManySide)
	}
	return nil
}
