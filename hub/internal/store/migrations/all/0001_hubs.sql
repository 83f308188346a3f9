-- The hubs that are alive. A row with the hub_id of another one is free.
CREATE TABLE hubs (
    id   TEXT ${primary key},
    beat BIGINT NOT NULL -- another number each time that the hub renews it
);
