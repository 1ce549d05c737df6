BEGIN TRANSACTION;
CREATE TABLE jobs (
	sequence INTEGER NOT NULL, 
	id VARCHAR(40) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	priority INTEGER NOT NULL, 
	request JSON NOT NULL, 
	a VARCHAR(40) NOT NULL, 
	b VARCHAR(40) NOT NULL, 
	c VARCHAR(40), 
	result VARCHAR(40), 
	progress FLOAT NOT NULL, 
	attempts INTEGER NOT NULL, 
	cancel_requested BOOLEAN NOT NULL, 
	"plan" JSON, 
	timings JSON, 
	verification JSON, 
	error JSON, 
	idempotency_key VARCHAR(255), 
	created_at FLOAT NOT NULL, 
	started_at FLOAT, 
	finished_at FLOAT, 
	PRIMARY KEY (sequence), 
	CONSTRAINT jobs_idempotency_key UNIQUE (idempotency_key), 
	UNIQUE (id)
);
INSERT INTO "jobs" VALUES(1,'339d209219054e1ba62671b94abfd657','succeeded',0,'{"a": "67164d18dd0f486c9ec8d27d707ef5", "b": "fb62ad7c484f46a2bb563aca76516f", "c": null, "alpha": 1.0, "beta": 0.0, "kernel": "auto", "tile": null, "f": "auto", "verify": true, "priority": 0}','67164d18dd0f486c9ec8d27d707ef5','fb62ad7c484f46a2bb563aca76516f',NULL,'1cdb6943de7e427bacbdbe4740b3c6',1.0,1,0,'{"f": 4, "gpu_rows": 0, "kernel": null, "tile": null, "waves": 0, "waves_gpu_only": 0, "tail_utilization": 0.0, "predicted": {"gpu_seconds": 0.0, "cpu_seconds": 5.00074117639514e-05, "total_seconds": 5.00074117639514e-05}, "speedup_over_gpu": null, "speedup_over_cpu": 1.0, "profile": {"device": "cpu", "source": "estimate, no GPU; run `wavetrim calibrate` to measure this machine", "measured_at": null, "sm_count": null, "kernel": null, "link": null, "cpu": {"threads": 1, "threads_beside_gpu": 1, "gflops": 98.99979190539615, "source": "scaled from a brief measurement of float32 when the engine started"}}}','{"kernel_seconds": 0.0, "transfer_seconds": 0.0, "gpu_seconds": 0.0, "cpu_seconds": 0.00022319100025924854, "total_seconds": 0.003707494999616756}','{"passed": true, "max_error": 0.0, "tolerance": 6.0, "rows_checked": 4}',NULL,'done',1.79528419624767518044e+09,1.79528419625195717807e+09,1.79528419626399970056e+09);
INSERT INTO "jobs" VALUES(2,'c4a6c811ad5b42c19b1294f6eed5d46e','queued',3,'{"a": "67164d18dd0f486c9ec8d27d707ef5", "b": "fb62ad7c484f46a2bb563aca76516f", "c": null, "alpha": 2.0, "beta": 0.0, "kernel": "register", "tile": "64x128x16", "f": "auto", "verify": false, "priority": 3}','67164d18dd0f486c9ec8d27d707ef5','fb62ad7c484f46a2bb563aca76516f',NULL,NULL,0.0,0,0,NULL,NULL,NULL,NULL,'waiting',1.79528419855013632779e+09,NULL,NULL);
CREATE TABLE matrices (
	id VARCHAR(40) NOT NULL, 
	rows BIGINT NOT NULL, 
	columns BIGINT NOT NULL, 
	dtype VARCHAR(16) NOT NULL, 
	fortran_order BOOLEAN NOT NULL, 
	offset_bytes INTEGER NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	digest_sha256 VARCHAR(64), 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "matrices" VALUES('67164d18dd0f486c9ec8d27d707ef5',4,3,'float32',0,128,176,NULL,1.79528419619449853897e+09);
INSERT INTO "matrices" VALUES('fb62ad7c484f46a2bb563aca76516f',3,5,'float32',0,128,188,NULL,1.79528419622112298016e+09);
INSERT INTO "matrices" VALUES('1cdb6943de7e427bacbdbe4740b3c6',4,5,'float32',0,128,208,NULL,1.79528419626364660268e+09);
CREATE INDEX jobs_queue ON jobs (state, priority, sequence);
COMMIT;
