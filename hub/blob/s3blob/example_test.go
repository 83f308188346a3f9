package s3blob_test

import (
	"fmt"

	"github.com/seed93082962/agenthost/hub/blob/s3blob"
)

func ExampleConfig_UnmarshalText() {
	var cfg s3blob.Config
	err := cfg.UnmarshalText([]byte("s3://files/hub?region=eu-central-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Bucket, cfg.Prefix, cfg.Region)
	_, err = s3blob.New(cfg)
	fmt.Println(err)
	// Output:
	// files hub eu-central-1
	// open bucket: it needs an access key id and a secret access key, or a provider of credentials
}
