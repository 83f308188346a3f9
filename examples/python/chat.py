"""Sends a message to an agent of a hub and prints the answer while it arrives. It needs only Python 3.8.

AGENTHOST_URL is the address of the hub and AGENTHOST_TOKEN a CLI token: python3 chat.py AGENT MESSAGE
"""

import json
import os
import sys
import urllib.error
import urllib.request


def post(path, body):
    """Returns the response, whose status is one of success."""
    request = urllib.request.Request(
        os.environ["AGENTHOST_URL"] + "/api/v1/agents/" + path,
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["AGENTHOST_TOKEN"], "Content-Type": "application/json"},
    )
    try:
        return urllib.request.urlopen(request, timeout=60)  # a stream has a line every 15 seconds
    except urllib.error.HTTPError as error:
        sys.exit(json.load(error)["message"])


def events(response):
    """Yields the name and the data of each event of a stream."""
    name, data = "", ""
    for line in response:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data += value
        elif not field and data:
            yield name, json.loads(data)
            name, data = "", ""


def main(agent, message):
    session = json.load(post(agent + "/chat/sessions", {}))
    with post(agent + "/chat/sessions/" + session["id"] + "/messages", {"message": message}) as stream:
        for name, data in events(stream):
            if name == "partial_message" and data["partial"]["type"] == "text":
                print(data["partial"]["text"], end="", flush=True)
            elif name == "result" and data["subtype"] != "success":
                sys.exit("\n" + "; ".join(data["errors"]))
    print()


main(*sys.argv[1:])
