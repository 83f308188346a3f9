package engine

import (
	"bytes"
	"image"
	_ "image/gif"  // registers the format
	_ "image/jpeg" // registers the format
	_ "image/png"  // registers the format

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Limits for the images of one result. The Anthropic API accepts an image of at most 5 MB in
// base64.
const (
	maxImages     = 8
	maxImageBytes = 3_750_000
)

// maxMessageImageBytes bounds the images of all results of one response. A request of the Anthropic
// API has at most 32 MB, and a line of a session at most 129 MiB.
const maxMessageImageBytes = 15_000_000

// imageTokens is the maximum number of tokens of an image.
const imageTokens = 1600

// maxImageSide is the largest width and height that the Anthropic API accepts, in pixels.
const maxImageSide = 8000

// imageBudget counts the bytes of the images in the results of one response.
type imageBudget int

// take returns the images if they fit into the budget, and otherwise nil. The text of the result
// describes them in both cases.
func (b *imageBudget) take(images []model.Image) []model.Image {
	size := 0
	for _, v := range images {
		size += len(v.Data)
	}

	if int(*b)+size > maxMessageImageBytes {
		return nil
	}

	*b += imageBudget(size)
	return images
}

// limitImages returns the images that can be sent to a model, at most maxImageBytes in total. The
// text of the result describes all of them.
func limitImages(images []tool.Image) []model.Image {
	var sent []model.Image
	size := 0
	for _, v := range images {
		if size+len(v.Data) > maxImageBytes || len(sent) == maxImages {
			continue
		}

		if mediaType := imageType(v.Data); mediaType != "" {
			size += len(v.Data)
			sent = append(sent, model.Image{MediaType: mediaType, Data: v.Data})
		}
	}

	return sent
}

// imageType returns the media type of an image, or "" if it cannot be sent to a model. It does not
// use the type that the tool named: upstream rejects a conversation in which the two differ.
func imageType(data []byte) string {
	if len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "image/webp"
	}

	size, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || max(size.Width, size.Height) > maxImageSide {
		return ""
	}

	return "image/" + format
}
